;;; edn-bridge-rewrite.el --- Text of a model in other buffers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Has a region rewritten as the user says, and shows the difference; only
;; what is accepted gets into the buffer, as one change that can be undone.
;; Also has the message of a commit written, of what is staged.

;;; Code:

(require 'cl-lib)
(require 'diff)
(require 'diff-mode)
(require 'edn-bridge-ask)
(require 'edn-bridge-side)
(require 'edn-bridge-view)

(defconst edn-bridge-rewrite--limit 60000
  "How many characters go to the model at most.")

;;;; Rewriting

(defvar-local edn-bridge-rewrite--overlay nil
  "In a buffer with a proposal, the overlay on what it is for.")

(defvar-local edn-bridge-rewrite--proposal nil
  "In a buffer with a difference, the buffer with the proposed text.")

(defun edn-bridge-rewrite--prompt (text instruction place)
  "Return the prompt to have TEXT at PLACE rewritten by INSTRUCTION."
  (let ((fence (make-string (max 3 (1+ (edn-bridge-input-longest-fence text)))
                            ?`)))
    (format "Rewrite the text below, which is %s, as follows: %s

Answer with the new text alone, in one code block fenced by %s. Keep its indentation, and what need not change.

%s
%s%s%s" place instruction fence fence text
(if (string-suffix-p "\n" text) "" "\n") fence)))

(defun edn-bridge-rewrite--text (answer old)
  "Return the text that ANSWER has for OLD: its code block, or all of it."
  (let* ((answer (string-trim answer "\n+" "[ \t\n]+"))
         (new (if (string-match
                   "^\\(```+\\|~~~+\\)[^\n`]*\n\\(\\(?:.\\|\n\\)*?\\)\n?\\1[ \t]*$"
                   answer)
                  (match-string 2 answer)
                answer)))
    (if (string-suffix-p "\n" old)
        (concat (string-remove-suffix "\n" new) "\n")
      (string-remove-suffix "\n" new))))

;;;###autoload
(defun edn-bridge-rewrite-region (start end instruction)
  "Have the text between START and END rewritten as INSTRUCTION says.
The difference is shown when it has come, and can be accepted then."
  (interactive
   (progn
     (barf-if-buffer-read-only)
     (unless (use-region-p)
       (user-error "There is no region"))
     (list (region-beginning) (region-end)
           (read-string "Rewrite the region how: "))))
  (let* ((chat (edn-bridge-ask--chat))
         (text (buffer-substring-no-properties start end))
         (overlay (make-overlay start end)))
    (when (> (length text) edn-bridge-rewrite--limit)
      (user-error "The region is too long"))
    (deactivate-mark)
    (overlay-put overlay 'face 'edn-bridge-rewrite-pending)
    (overlay-put overlay 'help-echo "This text is being rewritten")
    (overlay-put overlay 'edn-bridge-rewrite text)
    (edn-bridge-side-ask
     (edn-bridge-rewrite--prompt text instruction
                                 (edn-bridge-ask--place start end chat))
     :folder (buffer-local-value 'default-directory chat)
     :on-done (lambda (answer reason)
                (edn-bridge-rewrite--propose overlay answer reason)))
    (message "The region is being rewritten")))

(defun edn-bridge-rewrite--propose (overlay answer reason)
  "Show what ANSWER makes of the text of OVERLAY, or REASON why there is none."
  (let ((buffer (overlay-buffer overlay)))
    (cond
     ((not (buffer-live-p buffer)))
     (reason
      (delete-overlay overlay)
      (message "The region was not rewritten: %s"
               (edn-bridge-visible-label reason)))
     (t
      (let* ((old (overlay-get overlay 'edn-bridge-rewrite))
             (new (edn-bridge-rewrite--text answer old)))
        (if (equal old new)
            (progn
              (delete-overlay overlay)
              (message "The model would leave the region as it is"))
          (edn-bridge-rewrite--show overlay old new)))))))

(defvar-local edn-bridge-rewrite--read nil
  "Non-nil in a difference that can be accepted.")

(edn-bridge-define-view-mode edn-bridge-rewrite-diff-mode diff-mode "Rewrite"
  "Major mode of a difference that can be accepted."
  :keys (("a" edn-bridge-rewrite-accept "accept")
         ("e" edn-bridge-rewrite-edit "edit before accepting")
         ("q" edn-bridge-rewrite-reject "reject"))
  ;; A diff that is only read has keys of a minor mode, before its own.
  (setq edn-bridge-rewrite--read t)
  (setq-local minor-mode-overriding-map-alist
              (list (cons 'edn-bridge-rewrite--read
                          edn-bridge-rewrite-diff-mode-map))))

(defun edn-bridge-rewrite--show (overlay old new)
  "Show the difference between OLD, the text of OVERLAY, and NEW."
  (let ((proposal (generate-new-buffer "*edn-bridge proposal*"))
        (before (generate-new-buffer " *edn-bridge before*"))
        (diff (generate-new-buffer "*edn-bridge rewrite*"))
        (mode (buffer-local-value 'major-mode (overlay-buffer overlay))))
    (with-current-buffer before
      (insert old))
    (with-current-buffer proposal
      (insert new)
      (delay-mode-hooks (funcall mode))
      (edn-bridge-visible-region (point-min) (point-max) 'strict)
      (setq edn-bridge-rewrite--overlay overlay)
      (setq header-line-format
            (substitute-command-keys
             "\\<edn-bridge-rewrite-edit-map>\\[edn-bridge-rewrite-accept] accepts this text, \\[edn-bridge-rewrite-reject] leaves the buffer as it was"))
      (edn-bridge-rewrite--edit-mode))
    (unwind-protect
        (diff-no-select before proposal nil t diff)
      (kill-buffer before))
    (with-current-buffer diff
      (edn-bridge-rewrite-diff-mode)
      (let ((inhibit-read-only t))
        ;; Without the names of temporary files.
        (goto-char (point-min))
        (when (re-search-forward "^@@" nil t)
          (delete-region (point-min) (match-beginning 0)))
        (goto-char (point-max))
        (when (re-search-backward "^Diff finished" nil t)
          (delete-region (1- (point)) (point-max)))
        (goto-char (point-min))
        (edn-bridge-visible-region (point-min) (point-max) 'strict))
      (setq edn-bridge-rewrite--overlay overlay
            edn-bridge-rewrite--proposal proposal))
    (display-buffer diff)
    (message "The region can be rewritten: see %s" (buffer-name diff))))

(defvar edn-bridge-rewrite-edit-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'edn-bridge-rewrite-accept)
    (define-key map (kbd "C-c C-k") #'edn-bridge-rewrite-reject)
    map)
  "Keymap of a proposed text that is being edited.")

(define-minor-mode edn-bridge-rewrite--edit-mode
  "Keys of a proposed text."
  :interactive nil
  :keymap edn-bridge-rewrite-edit-map)

(defun edn-bridge-rewrite--proposal ()
  "Return the buffer with the text that this buffer is about."
  (let ((proposal (or edn-bridge-rewrite--proposal (current-buffer))))
    (unless (and (buffer-live-p proposal)
                 (buffer-local-value 'edn-bridge-rewrite--overlay proposal))
      (user-error "Nothing is proposed here"))
    proposal))

(defun edn-bridge-rewrite-accept ()
  "Put the proposed text into its buffer, in the place of what was there."
  (interactive)
  (let* ((proposal (edn-bridge-rewrite--proposal))
         (overlay (buffer-local-value 'edn-bridge-rewrite--overlay proposal))
         (new (with-current-buffer proposal
                (buffer-substring-no-properties (point-min) (point-max))))
         (buffer (overlay-buffer overlay)))
    (unless (buffer-live-p buffer)
      (user-error "The buffer is gone"))
    (with-current-buffer buffer
      (let ((start (overlay-start overlay))
            (end (overlay-end overlay)))
        (unless (equal (buffer-substring-no-properties start end)
                       (overlay-get overlay 'edn-bridge-rewrite))
          (user-error "That text was changed meanwhile; nothing is put there"))
        (barf-if-buffer-read-only)
        (undo-boundary)
        (save-excursion
          (goto-char start)
          (insert new)
          (delete-region (point) (+ (point) (- end start))))
        (undo-boundary)))
    (edn-bridge-rewrite--end proposal)))

(defun edn-bridge-rewrite-reject ()
  "Leave the buffer as it was."
  (interactive)
  (edn-bridge-rewrite--end (edn-bridge-rewrite--proposal)))

(defun edn-bridge-rewrite-edit ()
  "Edit the proposed text before it is accepted."
  (interactive)
  (pop-to-buffer (edn-bridge-rewrite--proposal)))

(defun edn-bridge-rewrite--end (proposal)
  "Drop PROPOSAL, a buffer, and what shows it."
  (delete-overlay (buffer-local-value 'edn-bridge-rewrite--overlay proposal))
  (dolist (buffer (buffer-list))
    (when (or (eq buffer proposal)
              (eq (buffer-local-value 'edn-bridge-rewrite--proposal buffer)
                  proposal))
      (with-current-buffer buffer
        (set-buffer-modified-p nil))
      (dolist (window (get-buffer-window-list buffer nil t))
        (quit-restore-window window))
      (kill-buffer buffer))))

;;;; The message of a commit

(defconst edn-bridge-rewrite--diff-command
  '("git" "--no-pager" "-c" "core.fsmonitor=false" "diff" "--cached"
    "--no-color" "--no-ext-diff" "--no-textconv")
  "The command that writes what is staged.")

;;;###autoload
(defun edn-bridge-commit-message ()
  "Have the message of a commit of what is staged written.
In a buffer for such a message it is inserted, else it goes to the kill ring."
  (interactive)
  (let* ((target (current-buffer))
         (chat (edn-bridge-ask--chat))
         (folder (buffer-local-value 'default-directory chat))
         (default-directory (or (locate-dominating-file default-directory ".git")
                                default-directory)))
    (make-process
     :name "edn-bridge git diff"
     :buffer (generate-new-buffer " *edn-bridge git diff*" t)
     :command edn-bridge-rewrite--diff-command
     :connection-type 'pipe
     :coding 'utf-8-unix
     :noquery t
     :file-handler t
     :sentinel (lambda (process _change)
                 (unless (process-live-p process)
                   (edn-bridge-rewrite--ask-message process target folder))))
    (message "The message is being written")))

(defun edn-bridge-rewrite--ask-message (process target folder)
  "Ask in FOLDER for a message for the diff that PROCESS wrote, for TARGET."
  (let ((diff (with-current-buffer (process-buffer process)
                (buffer-string)))
        (status (process-exit-status process)))
    (kill-buffer (process-buffer process))
    (cond
     ((/= status 0)
      ;; The usage may follow.
      (message "git: %s" (edn-bridge-visible-label
                          (car (split-string (string-trim diff) "\n")))))
     ((equal (string-trim diff) "")
      (message "Nothing is staged"))
     (t
      (edn-bridge-side-ask
       (concat
        "Write the message of a git commit of these staged changes: a subject in the imperative of at most 72 characters, an empty line, and why in a few lines. Answer with the message alone.\n\n"
        (if (> (length diff) edn-bridge-rewrite--limit)
            (concat (substring diff 0 edn-bridge-rewrite--limit)
                    "\n(the rest is left out)")
          diff))
       :folder folder
       :on-done (lambda (answer reason)
                  (edn-bridge-rewrite--take-message target answer reason)))))))

(defun edn-bridge-rewrite--message-buffer-p (buffer)
  "Return non-nil if BUFFER is for the message of a commit."
  (and (buffer-live-p buffer)
       (with-current-buffer buffer
         (and (not buffer-read-only)
              (or (bound-and-true-p git-commit-mode)
                  (derived-mode-p 'log-edit-mode)
                  (and buffer-file-name
                       (equal (file-name-nondirectory buffer-file-name)
                              "COMMIT_EDITMSG")))))))

(defun edn-bridge-rewrite--take-message (target answer reason)
  "Put ANSWER, a message, into TARGET if that is for it; or tell REASON."
  (if reason
      (message "There is no message: %s" (edn-bridge-visible-label reason))
    (let ((text (string-trim (edn-bridge-rewrite--text answer ""))))
      (if (not (edn-bridge-rewrite--message-buffer-p target))
          (progn
            (kill-new text)
            (message "The message is on the kill ring: %s"
                     (edn-bridge-visible-label
                      (car (split-string text "\n")))))
        (with-current-buffer target
          (save-excursion
            (goto-char (if (derived-mode-p 'log-edit-mode)
                           (point-max)
                         (point-min)))
            (let ((from (point)))
              (insert text "\n")
              (with-silent-modifications
                (edn-bridge-visible-region from (point) 'strict)))))
        (message "The message is in %s" (buffer-name target))))))

(provide 'edn-bridge-rewrite)

;;; edn-bridge-rewrite.el ends here
