;;; edn-bridge-faces-tests.el --- What a chat shows can be read  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Every theme that there is, on terminals of 16.7 million, 256 and 16
;; colours: an Emacs on a terminal of its own measures what is shown
;; (faces-measure.el).  Emacs's own themes are always there; others are where
;; EDN_BRIDGE_PACKAGES says (fetch-packages.sh).

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-packages-tests)

(defconst edn-bridge-faces-tests-terminals
  '((16777216 . "xterm-edntrue|a terminal,
	colors#0x1000000, pairs#0x10000, setb24=\\E[48;2;%p1%{65536}%/%d;%p1%{256}%/%{255}%&%d;%p1%{255}%&%dm,
	setf24=\\E[38;2;%p1%{65536}%/%d;%p1%{256}%/%{255}%&%d;%p1%{255}%&%dm, use=xterm-256color,\n")
    (256 . "xterm-edn256|a terminal,\n\tuse=xterm-256color,\n")
    (16 . "xterm-edn16|a terminal,\n\tcolors#16, pairs#256, use=xterm-256color,\n"))
  "Descriptions of terminals, by their number of colours.")

(defun edn-bridge-faces-tests-start (colors description folder)
  "Start an Emacs that measures on a terminal with COLORS in FOLDER.
DESCRIPTION is that of the terminal.  Return its process."
  (let ((source (expand-file-name (format "%d.ti" colors) folder))
        (themes (seq-filter
                 #'file-directory-p
                 (mapcan (lambda (folder)
                           (list folder (expand-file-name "themes" folder)))
                         (edn-bridge-packages-tests-folders)))))
    (write-region description nil source nil 'quiet)
    (with-temp-buffer
      (unless (zerop (call-process "tic" nil t nil "-x" "-o" folder source))
        (ert-fail (buffer-string))))
    (let ((process-environment
           (append
            (list (concat "EDN_BRIDGE_FACES_PACKAGE="
                          (file-name-directory
                           (locate-library "edn-bridge-faces")))
                  (concat "TERM=" (car (split-string description "|")))
                  (concat "TERMINFO=" folder)
                  "COLORTERM" "COLORFGBG"
                  (concat "EDN_BRIDGE_FACES_THEMES="
                          (string-join themes path-separator))
                  (format "EDN_BRIDGE_FACES_OUT=%s/%d.out" folder colors))
            process-environment)))
      (make-process
       :name "edn-bridge-faces"
       :connection-type 'pty
       :noquery t
       :buffer nil
       :command
       (list (expand-file-name invocation-name invocation-directory)
             "-nw" "-Q" "--eval"
             ;; Nobody answers what Emacs asks the terminal.
             "(setq xterm-query-timeout nil xterm-extra-capabilities nil)"
             "-l" (expand-file-name "faces-measure.el"
                                    edn-bridge-test-directory))))))

(defun edn-bridge-faces-tests-results ()
  "Return what was measured, by the number of colours."
  (let* ((folder (make-temp-file "edn-bridge-faces" t))
         (processes
          (pcase-let ((`(,default-directory ,_) (list temporary-file-directory nil)))
            (mapcar (pcase-lambda (`(,colors . ,description))
                      (edn-bridge-faces-tests-start colors description folder))
                    edn-bridge-faces-tests-terminals))))
    (unwind-protect
        (progn
          (with-temp-buffer
            (edn-bridge-test-wait
             (not (cl-some #'process-live-p processes)) 300))
          (mapcar (pcase-lambda (`(,colors . ,_))
                    (let ((file (expand-file-name (format "%d.out" colors)
                                                  folder)))
                      (should (file-exists-p file))
                      (cons colors
                            (with-temp-buffer
                              (insert-file-contents file)
                              (read (current-buffer))))))
                  edn-bridge-faces-tests-terminals))
      (mapc #'delete-process processes)
      (delete-directory folder t))))

(defun edn-bridge-faces-tests-print (results)
  "Print RESULTS as a table, a line a theme."
  (message "%-32s %s" "least contrast: must be read/muted"
           (mapconcat (lambda (result) (format "%12s" (car result)))
                      results ""))
  (dolist (theme (plist-get (cdar results) :themes))
    (when (plist-member theme :theme)
      (message
       "%-34s %s" (or (plist-get theme :theme) "(none)")
       (mapconcat
        (lambda (result)
          (let ((row (seq-find (lambda (row)
                                 (and (plist-member row :theme)
                                      (eq (plist-get row :theme)
                                          (plist-get theme :theme))))
                               (plist-get (cdr result) :themes))))
            (format "   %4.1f/%4.1f" (plist-get row :read)
                    (plist-get row :muted))))
        results "")))))

(ert-deftest edn-bridge-faces-text-can-be-read-in-every-theme ()
  (skip-unless (executable-find "tic"))
  (let ((results (edn-bridge-faces-tests-results)))
    (pcase-dolist (`(,colors . ,result) results)
      (ert-info ((format "%d colours" colors))
        (should-not (plist-get result :error))
        (should (= (plist-get result :colors) colors))
        (should-not (plist-get result :unclassed))
        ;; Emacs's own.
        (should (> (length (plist-get result :themes)) 15))))
    (edn-bridge-faces-tests-print results)
    (should-not
     (mapcan (pcase-lambda (`(,colors . ,result))
               (mapcar (lambda (failure) (cons colors failure))
                       (plist-get result :failures)))
             results))))

(provide 'edn-bridge-faces-tests)

;;; edn-bridge-faces-tests.el ends here
