;;; edn-bridge-queue.el --- The queue for the model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The queued messages for a turn, or for its next call of the model,
;; stand in lines above the draft, whoever sent them.  There they can be
;; edited, moved, and taken back into the draft; and what an abort holds back
;; is released there.
;;
;; The bridge tells the queue at every change.  A bridge that does not is
;; one for which the lines of `edn-bridge-said' are all there is.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'edn-bridge-chat)
(require 'edn-bridge-said)
(require 'edn-bridge-input)

(defconst edn-bridge-queue--shown 20
  "How many of the queued messages are shown.")

(defvar-local edn-bridge-queue--messages nil
  "The queued messages, in order, as the bridge tells of them.")

(defvar-local edn-bridge-queue--held nil
  "Non-nil if an abort holds them back.")

(defvar edn-bridge-queue-map
  (let ((map (make-sparse-keymap)))
    (define-key map "e" #'edn-bridge-queue-edit)
    (define-key map (kbd "RET") #'edn-bridge-queue-edit)
    (define-key map [mouse-2] #'edn-bridge-queue-edit-at-mouse)
    (define-key map [follow-link] 'mouse-face)
    (define-key map "k" #'edn-bridge-queue-take-back)
    (define-key map "d" #'edn-bridge-queue-take-back)
    (define-key map (kbd "M-<up>") #'edn-bridge-queue-move-up)
    (define-key map (kbd "M-<down>") #'edn-bridge-queue-move-down)
    (define-key map "n" #'edn-bridge-queue-next)
    (define-key map "p" #'edn-bridge-queue-previous)
    (define-key map "q" #'edn-bridge-queue-leave)
    map)
  "Keymap on the lines of the queue.")

;;;; Showing

(defun edn-bridge-queue--on-updated (data)
  "Show the queue, as DATA of `queue/updated' tells."
  (when (edn-bridge-chat-mine-p data)
    (let* ((entry (edn-bridge-queue--entry-at-point))
           (index (or (edn-bridge-queue--index entry) 0)))
      (setq edn-bridge-queue--messages (append (plist-get data :waiting) nil)
            edn-bridge-queue--held (edn-bridge-edn-true-p
                                    (plist-get data :held)))
      (edn-bridge-said-note-told
       (mapcar (lambda (message) (plist-get message :text))
               edn-bridge-queue--messages))
      (edn-bridge-chat-set-status 'edn-bridge-queue (edn-bridge-queue--lines))
      (when entry
        ;; Where the one at point is gone, the next one has its place.
        (edn-bridge-queue--find-line
         (if (edn-bridge-queue--index entry)
             entry
           (plist-get (nth (max 0 (min index
                                       (1- (length edn-bridge-queue--messages))))
                           edn-bridge-queue--messages)
                      :entry-id)))))))

(defun edn-bridge-queue--index (entry)
  "Return the place of the message ENTRY among those that wait, or nil."
  (seq-position edn-bridge-queue--messages entry
                (lambda (message entry)
                  (equal entry (plist-get message :entry-id)))))

(defun edn-bridge-queue--lines ()
  "Return the lines for the queue."
  (let* ((count (length edn-bridge-queue--messages))
         (rest (- count edn-bridge-queue--shown)))
    (when (> count 0)
      (append
       (mapcar #'edn-bridge-queue--line
               (seq-take edn-bridge-queue--messages edn-bridge-queue--shown))
       (and (> rest 0)
            (list (format "and %d more" rest)))
       (list
        (concat
         (and edn-bridge-queue--held
              (propertize
               (edn-bridge-faces-keys
                "Held back since the abort; \\[edn-bridge-queue-resume] resumes it.  ")
               'face 'edn-bridge-accent))
         (edn-bridge-faces-keys
          "\\[edn-bridge-queue-go-to]: edit, move or take back")))))))

(defun edn-bridge-queue--line (message)
  "Return the line for MESSAGE, which waits."
  (let ((images (plist-get message :images)))
    (propertize
     (concat
      (if-let ((sender (edn-bridge-queue--sender message)))
          (concat "From " sender ", for ")
        "For ")
      (if (equal (edn-bridge-chat-word (plist-get message :until)) "turn-end")
          "after the turn: "
        "the running turn: ")
      (truncate-string-to-width
       (edn-bridge-visible-label
        (replace-regexp-in-string "[ \t\n]+" " "
                                  (or (plist-get message :text) "")))
       60 nil nil "…")
      (if (and (integerp images) (> images 0))
          (format "  [%d image%s]" images (if (= images 1) "" "s"))
        ""))
     'edn-bridge-queue (plist-get message :entry-id)
     'keymap edn-bridge-queue-map
     'mouse-face 'highlight
     'help-echo "n, p: next, previous   e, RET: edit   d: take back   M-<up>, M-<down>: move   q: back to the draft")))

(defun edn-bridge-queue--sender (message)
  "Return who sent MESSAGE, as a label, or nil for a user of Emacs."
  (let* ((from (plist-get message :from))
         (sender (or (plist-get message :sender)
                     (pcase (edn-bridge-chat-word (plist-get from :kind))
                       ("client" (plist-get from :client))
                       ("control" "another program")))))
    (and (stringp sender)
         (not (member sender '("" "emacs")))
         (truncate-string-to-width (edn-bridge-visible-label sender)
                                   30 nil nil "…"))))

(defun edn-bridge-queue--entry-at-point ()
  "Return the entry of the queued message on whose line point is, or nil."
  (get-text-property (line-beginning-position) 'edn-bridge-queue))

(defun edn-bridge-queue--find-line (entry)
  "Go to the line of the queued message ENTRY, if there is one."
  (let ((place (edn-bridge-transcript-find
                'edn-bridge-queue entry (edn-bridge-transcript-end)
                (edn-bridge-transcript-draft-start))))
    (goto-char (or place (point-max)))))

(defun edn-bridge-queue--message (&optional entry)
  "Return the queued message ENTRY, or else the one at point.
Fail where there is none, or where it came from another program."
  (let* ((entry (or entry (edn-bridge-queue--entry-at-point)))
         (message (seq-find (lambda (message)
                              (equal entry (plist-get message :entry-id)))
                            edn-bridge-queue--messages)))
    (cond
     ((null entry)
      (user-error "No queued message is on this line; %s goes to one"
                  (edn-bridge-faces-keys "\\[edn-bridge-queue-go-to]")))
     ((null message)
      (user-error "This message does not wait any more"))
     ((edn-bridge-edn-true-p (plist-get message :fixed))
      (user-error "This message came from another program and stays as it is"))
     (message))))

;;;; Commands

(defun edn-bridge-queue-go-to ()
  "Go to the next queued message, behind the last to the first."
  (interactive nil edn-bridge-chat-mode)
  (unless edn-bridge-queue--messages
    (user-error "No message is queued"))
  (let* ((start (edn-bridge-transcript-end))
         (end (edn-bridge-transcript-draft-start))
         (from (if (edn-bridge-queue--entry-at-point)
                   (next-single-property-change (line-beginning-position)
                                                'edn-bridge-queue nil end)
                 start)))
    (goto-char (or (text-property-not-all from end 'edn-bridge-queue nil)
                   (text-property-not-all start end 'edn-bridge-queue nil)
                   (point-max)))))

(defun edn-bridge-queue-next (count)
  "Go to the COUNTth queued message below point.  Point stays among them."
  (interactive "p" edn-bridge-chat-mode)
  (let* ((index (edn-bridge-queue--index (edn-bridge-queue--entry-at-point)))
         (shown (seq-take edn-bridge-queue--messages edn-bridge-queue--shown))
         (wanted (and index (+ index count))))
    (unless index
      (user-error "No queued message is on this line"))
    (unless (< -1 wanted (length shown))
      (user-error "This is the %s one" (if (< count 0) "first" "last")))
    (edn-bridge-queue--find-line (plist-get (nth wanted shown) :entry-id))))

(defun edn-bridge-queue-previous (count)
  "Go to the COUNTth queued message above point.  Point stays among them."
  (interactive "p" edn-bridge-chat-mode)
  (edn-bridge-queue-next (- count)))

(defun edn-bridge-queue-leave ()
  "Go back to the draft."
  (interactive nil edn-bridge-chat-mode)
  (goto-char (point-max)))

(defun edn-bridge-queue--request (op params &optional on-success)
  "Send OP with PARAMS, and call ON-SUCCESS with the answer's data.
A refusal is shown in the echo area: the queue is told anew by itself."
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn op params
     :on-success (lambda (data)
                   (edn-bridge-chat-with-buffer conn
                     (funcall (or on-success #'ignore) data)))
     :on-error (lambda (frame)
                 (message "%s"
                          (pcase (plist-get frame :error-code)
                            ("request/not-found"
                             "This message does not wait any more")
                            (_ (edn-bridge-visible-label
                                (or (plist-get frame :error-message) "")))))))))

(defun edn-bridge-queue-take-back ()
  "Take the queued message at point back, into the draft."
  (interactive nil edn-bridge-chat-mode)
  (let ((message (edn-bridge-queue--message)))
    (edn-bridge-queue--request
     "remove_pending" (list :entry-id (plist-get message :entry-id))
     (lambda (data)
       (let ((draft (string-trim (edn-bridge-transcript-draft)))
             (text (or (plist-get data :text) "")))
         (edn-bridge-said-note-returned text)
         (edn-bridge-transcript-set-draft
          (if (equal draft "") text (concat text "\n\n" draft)))
         (goto-char (point-max))
         (when (and (integerp (plist-get data :images))
                    (> (plist-get data :images) 0))
           (message "Its images are gone; add them again")))))))

(defun edn-bridge-queue-move-up ()
  "Have the queued message at point delivered before the one above it."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-queue--move -1))

(defun edn-bridge-queue-move-down ()
  "Have the queued message at point delivered after the one below it."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-queue--move 1))

(defun edn-bridge-queue--move (count)
  "Move the queued message at point by COUNT, 1 or -1, places."
  (let* ((message (edn-bridge-queue--message))
         (index (+ (seq-position edn-bridge-queue--messages message #'eq)
                   count)))
    (unless (< -1 index (length edn-bridge-queue--messages))
      (user-error "It is the %s one already" (if (< count 0) "first" "last")))
    (edn-bridge-queue--request
     "move_pending"
     (append (list :entry-id (plist-get message :entry-id))
             ;; It goes before the one that has its new place, or follows it.
             (when-let ((before (nth (if (< count 0) index (1+ index))
                                     edn-bridge-queue--messages)))
               (list :before (plist-get before :entry-id)))))))

(defun edn-bridge-queue-resume ()
  "Resume the queue, which an abort holds back, or an earlier run left."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-queue--request
   "resume_queue" nil
   (lambda (data)
     (unless (edn-bridge-edn-true-p (plist-get data :resumed))
       (message "No message is queued%s"
                ;; Elsewhere this key sends.
                (if (string-blank-p (edn-bridge-transcript-draft))
                    ""
                  (substitute-command-keys
                   "; \\[edn-bridge-input-send] sends the draft")))))))

;;;; Editing

(defvar-local edn-bridge-queue--edited nil
  "In a buffer with the text of a queued message, its chat and entry.")

(defvar edn-bridge-queue-edit-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'edn-bridge-queue-edit-finish)
    (define-key map (kbd "C-c C-k") #'edn-bridge-queue-edit-abandon)
    map)
  "Keymap of a buffer with the text of a queued message.")

(define-minor-mode edn-bridge-queue--edit-mode
  "Keys of the text of a queued message."
  :interactive nil
  :keymap edn-bridge-queue-edit-map)

(defun edn-bridge-queue-edit-at-mouse (event)
  "Edit the queued message where the mouse EVENT was."
  (interactive "e" edn-bridge-chat-mode)
  (mouse-set-point event)
  (edn-bridge-queue-edit))

(defun edn-bridge-queue-edit ()
  "Edit the queued message at point in a buffer of its own.
It keeps its place."
  (interactive nil edn-bridge-chat-mode)
  (let* ((message (edn-bridge-queue--message))
         (entry (plist-get message :entry-id))
         (chat (current-buffer)))
    (if (not (edn-bridge-edn-true-p (plist-get message :cut)))
        (edn-bridge-queue--edit chat entry (plist-get message :text))
      (edn-bridge-queue--request
       "list_pending" (list :entry-id entry)
       (lambda (data)
         (edn-bridge-queue--edit
          chat entry
          (plist-get (car (append (plist-get data :waiting) nil)) :text)))))))

(defun edn-bridge-queue--edit (chat entry text)
  "Show TEXT of the message ENTRY, which waits in CHAT, to be edited."
  (let ((buffer (generate-new-buffer "*edn-bridge queued message*")))
    (with-current-buffer buffer
      (text-mode)
      (edn-bridge-queue--edit-mode)
      (insert (or text ""))
      (set-buffer-modified-p nil)
      (buffer-enable-undo)
      (setq edn-bridge-queue--edited (cons chat entry)
            header-line-format
            (edn-bridge-faces-keys
             "\\<edn-bridge-queue-edit-map>\\[edn-bridge-queue-edit-finish] has this text wait instead, \\[edn-bridge-queue-edit-abandon] leaves the message as it was")))
    (pop-to-buffer buffer)))

(defun edn-bridge-queue-edit-finish ()
  "Have the text of this buffer wait in the place of the message."
  (interactive)
  (pcase-let* ((`(,chat . ,entry) (or edn-bridge-queue--edited
                                      (user-error "This is no message")))
               (text (string-trim
                      (buffer-substring-no-properties (point-min)
                                                      (point-max))))
               (buffer (current-buffer)))
    (when (equal text "")
      (user-error "The message is empty; take it back instead"))
    (unless (buffer-live-p chat)
      (user-error "The chat is gone"))
    (with-current-buffer chat
      ;; It may have been delivered meanwhile: then the text stays here.
      (edn-bridge-queue--request
       "edit_pending" (list :entry-id entry :message text)
       (lambda (_data)
         (when (buffer-live-p buffer)
           (with-current-buffer buffer
             (edn-bridge-queue-edit-abandon))))))))

(defun edn-bridge-queue-edit-abandon ()
  "Leave the message as it was."
  (interactive)
  (unless edn-bridge-queue--edited
    (user-error "This is no message"))
  (let ((buffer (current-buffer)))
    (set-buffer-modified-p nil)
    (dolist (window (get-buffer-window-list buffer nil t))
      (quit-restore-window window))
    (kill-buffer buffer)))

;;;; Registering

(edn-bridge-chat-handle "queue/updated" #'edn-bridge-queue--on-updated)

(let ((map edn-bridge-chat-mode-map))
  (define-key map (kbd "C-c C-b") #'edn-bridge-queue-go-to)
  (define-key map (kbd "C-c C-c") #'edn-bridge-queue-resume))

(provide 'edn-bridge-queue)

;;; edn-bridge-queue.el ends here
