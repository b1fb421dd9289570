;;; edn-bridge-files.el --- The agent works on open buffers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The bridge is told which files of the chat's folder are open in Emacs.
;; What the agent reads of those is what their buffers show, unsaved changes
;; included; what it edits is edited there, as a change that can be undone,
;; and saved.
;;
;; No hook of a user's buffer is set for that: what is open is looked at
;; before a message is sent, and every second while a turn runs.  An edit
;; asks nothing, and runs no hook that could change the text on its way.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)
(require 'edn-bridge-buffers)

(defcustom edn-bridge-files-share t
  "Non-nil means that the agent works on the buffers of files that are open.
It reads their unsaved changes, and its edits can be undone in them.
Otherwise it reads and changes the files on disk."
  :type 'boolean
  :group 'edn-bridge)

(defcustom edn-bridge-files-run-before-save nil
  "Non-nil means that `before-save-hook' runs when an edit is saved.
Functions there may change more than what you allowed, such as the layout
of the whole file."
  :type 'boolean
  :group 'edn-bridge)

(defconst edn-bridge-files--count 1000
  "How many files the bridge is told of at most.")

(defconst edn-bridge-files--size 4000000
  "Largest buffer, in characters, that the agent works on.")

(defvar-local edn-bridge-files--told nil
  "What the bridge was told last: connection, session and files.")

(defvar-local edn-bridge-files--refused nil
  "The connection to a bridge that does not know of open files, or nil.")

;;;; What is open

(defun edn-bridge-files--usable-p (buffer)
  "Return non-nil if the text of BUFFER is that of its file."
  (with-current-buffer buffer
    (and enable-multibyte-characters
         (not (buffer-base-buffer))
         (<= (buffer-size) edn-bridge-files--size)
         ;; These keep something else in the buffer than in the file.
         (null write-contents-functions)
         (not (memq (coding-system-type (or buffer-file-coding-system 'utf-8))
                    '(raw-text utf-16)))
         (not (coding-system-get (or buffer-file-coding-system 'utf-8) :bom))
         ;; Compressed or encrypted.
         (not (find-file-name-handler (file-local-name buffer-file-name)
                                      'insert-file-contents)))))

(defun edn-bridge-files--open ()
  "Return the buffers of files of this folder that the agent can work on."
  (let ((folder (expand-file-name default-directory))
        (buffers nil)
        (count 0))
    (dolist (buffer (buffer-list))
      (let ((file (buffer-file-name buffer)))
        (when (and file
                   (< count edn-bridge-files--count)
                   (edn-bridge-files--below-p buffer file folder)
                   (edn-bridge-files--usable-p buffer))
          (push buffer buffers)
          (cl-incf count))))
    (nreverse buffers)))

(defun edn-bridge-files-shared-p (buffer)
  "Return non-nil if the agent of this chat works on BUFFER, not on its file."
  (and edn-bridge-buffers-shared
       (memq buffer (edn-bridge-files--open))
       t))

(defun edn-bridge-files--below-p (buffer file folder)
  "Return non-nil if FILE, which BUFFER visits, is below FOLDER.
Nothing is asked of the file system."
  (or (string-prefix-p folder file)
      (let ((true (buffer-local-value 'buffer-file-truename buffer)))
        (and true
             (not (file-remote-p folder))
             (string-prefix-p folder (expand-file-name true))))))

(defun edn-bridge-files--list ()
  "Return what the bridge is to know of the files that are open, a vector."
  (vconcat
   (mapcar (lambda (buffer)
             (list :path (file-local-name (buffer-file-name buffer))
                   :modified (edn-bridge-edn-bool (buffer-modified-p buffer))))
           (sort (edn-bridge-files--open)
                 (lambda (a b)
                   (string-lessp (buffer-file-name a) (buffer-file-name b)))))))

(defun edn-bridge-files-tell ()
  "Tell the bridge of this chat which files are open, if that is news."
  (let ((conn edn-bridge-chat--conn))
    (when (and (edn-bridge-rpc-ready-p conn)
               (not (eq conn edn-bridge-files--refused)))
      (let ((news (list conn edn-bridge-chat--session-id
                        (and edn-bridge-files-share
                             (edn-bridge-files--list)))))
        (unless (or (equal news edn-bridge-files--told)
                    (and (not edn-bridge-files-share)
                         (null edn-bridge-files--told)))
          (setq edn-bridge-files--told news)
          (edn-bridge-rpc-request
           conn "register_files" (list :files (or (nth 2 news) []))
           :on-success
           (lambda (_data)
             (edn-bridge-chat-with-buffer conn
               (setq edn-bridge-buffers-shared edn-bridge-files-share)))
           :on-error
           (lambda (frame)
             (edn-bridge-chat-with-buffer conn
               (setq edn-bridge-buffers-shared nil
                     edn-bridge-files--told nil)
               (when (equal (plist-get frame :error-code)
                            "request/op-not-supported")
                 (setq edn-bridge-files--refused conn))))))))))

(defun edn-bridge-files--tell-anew ()
  "Tell the bridge which files are open: this chat is on a session anew."
  (setq edn-bridge-files--told nil
        edn-bridge-buffers-shared nil)
  (edn-bridge-files-tell))

(defun edn-bridge-files--on-call (_data)
  "Tell the bridge which files are open, as the model writes a tool call."
  (edn-bridge-files-tell))

;;;; What the bridge asks for

(defun edn-bridge-files--on-requested (data)
  "Do what DATA of `file/requested' asks for, and answer."
  (let* ((conn edn-bridge-chat--conn)
         (answer (condition-case err
                     (edn-bridge-files--answer data)
                   ((error quit)
                    (list :status "failed"
                          :error-message (error-message-string err))))))
    (edn-bridge-rpc-request
     conn "file_result"
     (append (list :request-id (plist-get data :request-id)) answer)
     :on-success #'ignore
     ;; It may have been cancelled.
     :on-error #'ignore)))

(defun edn-bridge-files--answer (data)
  "Do what DATA of `file/requested' asks for; return what to answer."
  (let ((buffer (edn-bridge-buffers-visiting (plist-get data :path))))
    (if (not (and buffer
                  edn-bridge-files-share
                  (memq buffer (edn-bridge-files--open))
                  (edn-bridge-files--current-p buffer)))
        '(:status "closed")
      (with-current-buffer buffer
        (pcase (edn-bridge-chat-word (plist-get data :action))
          ("read"
           (list :status "ok"
                 :text (edn-bridge-files--text)
                 :modified (edn-bridge-edn-bool (buffer-modified-p))))
          ("write"
           (edn-bridge-files--write (plist-get data :text)
                                    (plist-get data :expected)))
          (_
           '(:status "failed" :error-message "Emacs does not know how")))))))

(defun edn-bridge-files--current-p (buffer)
  "Return non-nil unless the file of BUFFER is newer than its text.
A buffer with unsaved changes is never older: those would be lost."
  (or (buffer-modified-p buffer)
      (verify-visited-file-modtime buffer)))

(defun edn-bridge-files--dos-p ()
  "Return non-nil if the lines of this buffer's file end as those of DOS."
  (eq (coding-system-eol-type (or buffer-file-coding-system 'utf-8)) 1))

(defun edn-bridge-files--text ()
  "Return the text of this buffer, with the ends of lines that are saved."
  (let ((text (save-restriction
                (widen)
                (buffer-substring-no-properties (point-min) (point-max)))))
    (if (edn-bridge-files--dos-p)
        (string-replace "\n" "\r\n" text)
      text)))

(defun edn-bridge-files--digest (text)
  "Return the digest of TEXT, as the bridge makes it."
  (secure-hash 'sha256 (encode-coding-string text 'utf-8-unix)))

(defun edn-bridge-files--write (text expected)
  "Make TEXT that of this buffer and save it; return what to answer.
EXPECTED is the digest of the text that it replaces."
  (let ((new (and (stringp text)
                  (if (edn-bridge-files--dos-p)
                      (string-replace "\r\n" "\n" text)
                    text))))
    (cond
     ((not (stringp new))
      '(:status "failed" :error-message "There is no text"))
     ((and expected
           (not (equal expected (edn-bridge-files--digest
                                 (edn-bridge-files--text)))))
      '(:status "changed"))
     ;; The file itself can be changed; the buffer follows it.
     ((and buffer-read-only (not (buffer-modified-p)))
      '(:status "closed"))
     (buffer-read-only
      '(:status "failed"
        :error-message "Its buffer in Emacs is read-only and has unsaved changes"))
     ((not (verify-visited-file-modtime))
      '(:status "failed"
        :error-message "It was changed on disk, and its buffer in Emacs has unsaved changes"))
     ((not (file-writable-p buffer-file-name))
      '(:status "failed" :error-message "The file cannot be written"))
     ((edn-bridge-files--unencodable-p new)
      (list :status "failed"
            :error-message
            (format "Emacs keeps this file as %s, which has no code for some of these characters"
                    buffer-file-coding-system)))
     (t
      (edn-bridge-files--replace new)
      (list :status "ok"
            :saved (edn-bridge-edn-bool (edn-bridge-files--save)))))))

(defun edn-bridge-files--unencodable-p (text)
  "Return non-nil if TEXT cannot be saved in this buffer's coding system."
  (let ((coding (or buffer-file-coding-system 'utf-8)))
    (unless (memq (coding-system-type coding) '(utf-8 undecided))
      (unencodable-char-position 0 (length text) coding nil text))))

(defun edn-bridge-files--replace (new)
  "Make NEW the text of this buffer, as one change that can be undone.
Only what differs is replaced: points and markers elsewhere stay."
  (save-restriction
    (widen)
    (let* ((old (buffer-substring-no-properties (point-min) (point-max)))
           (head (let ((same (compare-strings old nil nil new nil nil)))
                   (if (eq same t) (length old) (1- (abs same)))))
           (tail (edn-bridge-files--same-tail old new head)))
      (unless (equal old new)
        (undo-boundary)
        (atomic-change-group
          (save-excursion
            (goto-char (+ (point-min) head))
            (let ((inhibit-field-text-motion t))
              (insert (substring new head (- (length new) tail)))
              (delete-region (point) (- (point-max) tail)))))
        (undo-boundary)))))

(defun edn-bridge-files--same-tail (old new head)
  "Return how long the end is that OLD and NEW have in common.
Their beginnings up to HEAD are not looked at."
  ;; The longest is found by halves: to compare them is fast.
  (let ((low 0)
        (high (- (min (length old) (length new)) head)))
    (while (< low high)
      (let ((size (/ (+ low high 1) 2)))
        (if (eq t (compare-strings old (- (length old) size) nil
                                   new (- (length new) size) nil))
            (setq low size)
          (setq high (1- size)))))
    low))

(defun edn-bridge-files--save ()
  "Save this buffer without a question; return non-nil if that is done."
  (condition-case err
      (let ((before-save-hook (and edn-bridge-files-run-before-save
                                   before-save-hook))
            (write-file-functions nil)
            (require-final-newline nil)
            (inhibit-interaction t)
            (inhibit-message t)
            (save-silently t))
        (save-buffer))
    ((error quit)
     (let ((inhibit-message t))
       (message "edn-bridge: %s was not saved: %s" buffer-file-name
                (error-message-string err)))))
  (not (buffer-modified-p)))

;;;; Registering

(defun edn-bridge-files--on-turn-clock ()
  "Tell the bridge which files are open, while a turn runs."
  (when (edn-bridge-chat-running-p)
    (edn-bridge-files-tell)))

(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-files--tell-anew)
(add-hook 'edn-bridge-input-send-hook #'edn-bridge-files-tell)
(add-hook 'edn-bridge-chat-clock-hook #'edn-bridge-files--on-turn-clock)
(edn-bridge-chat-handle "tool/start" #'edn-bridge-files--on-call)
(edn-bridge-chat-handle "file/requested" #'edn-bridge-files--on-requested)

(provide 'edn-bridge-files)

;;; edn-bridge-files.el ends here
